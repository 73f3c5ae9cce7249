"""Standard interfaces: the testbed as a PettingZoo parallel environment and as a Gymnasium environment."""
