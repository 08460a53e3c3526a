"""What a release tells of the private table and its population: weights, imputations, estimates with intervals."""
