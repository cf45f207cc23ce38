"""Message schemas that kafka-python lacks, in the JSON form its message classes load."""
