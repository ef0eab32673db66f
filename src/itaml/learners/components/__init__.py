"""Parts that methods are composed of: a teacher, an importance penalty, a generator."""
