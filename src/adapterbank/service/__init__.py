"""The bank over HTTP: customers send rows, jobs learn them, and every task answers."""
