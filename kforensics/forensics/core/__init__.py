"""What all of forensics builds on: findings, rules, record types, table rows, external sort and spill files."""
