package bookinfo.ratings;

import jakarta.validation.Valid;
import java.util.List;
import java.util.UUID;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** {@code GET /ratings/{productId}} and {@code POST /ratings}. */
@RestController
@RequestMapping("/ratings")
class RatingsController {
    private final Ratings ratings;

    RatingsController(Ratings ratings) {
        this.ratings = ratings;
    }

    @GetMapping("/{productId}")
    List<Rating> of(@PathVariable String productId) {
        return ratings.findByProductId(productId);
    }

    /** The identifier is made here, whatever the caller says. */
    @PostMapping
    @ResponseStatus(HttpStatus.CREATED)
    Rating add(@Valid @RequestBody Rating rating) {
        rating.setId(UUID.randomUUID().toString());
        return ratings.save(rating);
    }
}
