"""Crashes, recoveries, and the calibration of what recovery costs."""
