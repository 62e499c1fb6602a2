"""The stream model: elements, frames, schemas, tables, text, expressions, and how they travel."""
