"""Other projects' file formats: MovingAI maps and scenarios, Hugging Face datasets."""
