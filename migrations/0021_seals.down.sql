DROP INDEX batches_by_seal;
