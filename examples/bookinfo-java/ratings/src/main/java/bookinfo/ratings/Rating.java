package bookinfo.ratings;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import jakarta.validation.constraints.Max;
import jakarta.validation.constraints.Min;
import jakarta.validation.constraints.NotBlank;

/** One row. Its fields, in this order, are the body that the published reports loaded. */
@Entity
@Table(name = "ratings")
public class Rating {
    @Id
    private String id;

    @NotBlank
    @Column(name = "reviewer_id", nullable = false)
    private String reviewerId;

    @NotBlank
    @Column(name = "product_id", nullable = false)
    private String productId;

    @Min(1)
    @Max(5)
    private int rating;

    public String getId() {
        return id;
    }

    public void setId(String id) {
        this.id = id;
    }

    public String getReviewerId() {
        return reviewerId;
    }

    public void setReviewerId(String reviewerId) {
        this.reviewerId = reviewerId;
    }

    public String getProductId() {
        return productId;
    }

    public void setProductId(String productId) {
        this.productId = productId;
    }

    public int getRating() {
        return rating;
    }

    public void setRating(int rating) {
        this.rating = rating;
    }
}
