"""Pretrained backbones: networks that turn an image into a feature vector."""
