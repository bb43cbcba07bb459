"""Train the four applications of the paper, and keep what the trainings found."""
