"""Numbers made of predictions: accuracies under each protocol, the accuracy matrix, forgetting."""
