"""Images, the streams of tasks made of them, and where they come from."""
