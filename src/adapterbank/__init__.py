"""AdapterBank: one frozen text encoder, a bank of tasks."""
