"""Studies: questions to one store of training runs."""
