"""Inference: a checkpoint's parameters continue texts, or leave in a format that others read.

The arithmetic is that of `tutti.model.transformer`. `decoder` and `generation` import torch; nothing else here does.
"""
