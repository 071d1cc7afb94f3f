CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (id text PRIMARY KEY, status text NOT NULL, updated timestamptz NOT NULL);
