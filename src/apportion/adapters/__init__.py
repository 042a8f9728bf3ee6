"""Where other people's software begins: trainers that use our credit, files that hold their rollouts."""
