"""The five typed tools through which an engineer sees evidence and proposes a patch."""
