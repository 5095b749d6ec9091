INSERT INTO ratings (id, reviewer_id, product_id, rating) VALUES
    ('160d4b28-3362-4f11-a82a-8f7b14d7fbdf', '449e3589-abab-4de0-8ced-239fee452d41', '2099a055-1e21-46ef-825e-9e0de93554ea', 5),
    ('5c1f0a7e-93b8-4b1d-8d5e-2f6f4c0b7a92', '449e3589-abab-4de0-8ced-239fee452d41', 'a071c269-369c-4f79-be03-6a41f27d6b5f', 1);
