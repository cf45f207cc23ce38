"""Message schemas kafka-python does not carry, in the form its message classes read."""
