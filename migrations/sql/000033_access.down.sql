-- safe because: a link and a login are for hours at most, and whoever needs a token has another one made.
DROP TABLE login_link;
DROP TABLE console_login;
DROP TABLE access_token;
