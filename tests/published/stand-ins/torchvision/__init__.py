"""Stands in for torchvision, whose weights come from the network: a small network of the same inputs and outputs."""
