#!/bin/sh
# Makes the lab's role, which is no superuser, and its database, when PostgreSQL begins. compose.yaml runs it.
psql -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set password `cat "${PASSWORD_FILE:-/run/secrets/postgres_password}"`
CREATE ROLE drafthouse LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE drafthouse OWNER drafthouse;
SQL
