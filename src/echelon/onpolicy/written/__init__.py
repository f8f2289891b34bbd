"""Gradients written out instead of recorded by autograd."""
