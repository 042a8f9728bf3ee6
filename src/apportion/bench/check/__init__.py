"""How often the checks find planted faults, and how often they cry wolf."""
