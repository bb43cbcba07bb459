"""Studies whose processes are killed at random moments: `make test-faults`."""
