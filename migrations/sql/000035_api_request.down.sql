-- safe because: it only recognises requests of the last day that are made again; what they did stays.
DROP TABLE api_request;
