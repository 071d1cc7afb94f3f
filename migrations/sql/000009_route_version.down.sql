DROP TABLE route_version;
