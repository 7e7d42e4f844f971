"""A fleet that is harmed on purpose: what `benchmarks.chaos` is made of."""
