"""What people look at: tables with published figures, charts, and one page about any number of runs."""
