package bookinfo.ratings;

import java.util.List;
import org.springframework.data.jpa.repository.JpaRepository;

/** The rows. */
interface Ratings extends JpaRepository<Rating, String> {
    List<Rating> findByProductId(String productId);
}
