"""Results of campaigns: sets of judgements, weights and fitted preferences."""
