// What stands here is never called.
