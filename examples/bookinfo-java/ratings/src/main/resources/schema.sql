CREATE TABLE ratings (
    id VARCHAR(36) PRIMARY KEY,
    reviewer_id VARCHAR(64) NOT NULL,
    product_id VARCHAR(64) NOT NULL,
    rating INT NOT NULL
);
CREATE INDEX ratings_of_product ON ratings (product_id);
