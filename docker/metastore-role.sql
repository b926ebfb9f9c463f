-- Makes the metastore's database and its own login, which owns nothing else and may not enter Airflow's database. Run by
-- `hive-init` of docker-compose.yaml as often as it starts. psql reads the password from the environment by itself.
\getenv password METASTORE_PASSWORD
SELECT 'CREATE ROLE metastore' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'metastore') \gexec
ALTER ROLE metastore LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD :'password';
SELECT 'CREATE DATABASE metastore OWNER metastore'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'metastore') \gexec
REVOKE CONNECT ON DATABASE airflow FROM PUBLIC;
