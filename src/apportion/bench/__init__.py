"""Tasks with exact answers, and the comparison of methods on them at equal cost."""
