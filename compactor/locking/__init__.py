"""Locks as Hive means them: kinds, compatibility, order of requests, waiting times. Pure."""
