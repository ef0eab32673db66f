"""Parts that learners are composed of."""
