"""Where tables lie: the file-system protocol and its back ends. Knows directories and bytes, neither ORC nor SQL."""
