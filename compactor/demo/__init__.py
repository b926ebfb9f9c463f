"""The demo: real data, a real scheduler, and the numbers before and after."""
