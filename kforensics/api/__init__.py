"""The library functions of the commands, and notebook views of their tables."""
