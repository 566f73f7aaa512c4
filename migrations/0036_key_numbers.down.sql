DROP TRIGGER keys_numbered ON keys;
DROP FUNCTION assay_number_key();
ALTER TABLE keys DROP COLUMN changed;
