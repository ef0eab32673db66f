"""Exchange with other programs: exported networks, model hubs, label tools."""
