-- Postgres runs this once, when it sets itself up: the buyer's own database beside the seller's.
create database buyer;
