//! Timing tables: our Parquet schema, importers of public tables, physics alarms, splits.
