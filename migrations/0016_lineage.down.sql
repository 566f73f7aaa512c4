DROP TABLE lineage;
