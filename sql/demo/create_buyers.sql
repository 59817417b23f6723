-- Purpose: makes the database that the demo's steady buyers keep their inbox in.
-- Parameters: none.
-- Guard: Postgres refuses a second one of that name. Not inside a transaction.

create database buyers;
