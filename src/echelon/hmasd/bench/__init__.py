"""Many runs compared: which there are, how far they are, and what they say together."""
