"""End to end: real machines, the real deploy, converged twice."""
