"""What Hive's ACID layout means, as pure functions: names, write-id lists, bucket property, directory state."""
