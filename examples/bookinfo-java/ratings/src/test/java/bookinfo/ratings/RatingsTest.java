package bookinfo.ratings;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.boot.test.web.client.TestRestTemplate;

@SpringBootTest(webEnvironment = WebEnvironment.RANDOM_PORT)
class RatingsTest {
    private static final String PRODUCT = "2099a055-1e21-46ef-825e-9e0de93554ea";

    @Autowired
    private TestRestTemplate http;

    @Test
    void bodyIsThatOfTheReports() {
        assertThat(http.getForObject("/ratings/" + PRODUCT, String.class))
                .isEqualTo("[{\"id\":\"160d4b28-3362-4f11-a82a-8f7b14d7fbdf\","
                        + "\"reviewerId\":\"449e3589-abab-4de0-8ced-239fee452d41\","
                        + "\"productId\":\"" + PRODUCT + "\",\"rating\":5}]");
    }

    @Test
    void ratingThatIsAddedIsFound() {
        var added = Map.of("reviewerId", "r", "productId", "p", "rating", 3);
        assertThat(http.postForEntity("/ratings", added, String.class).getStatusCode().value()).isEqualTo(201);
        var found = http.getForObject("/ratings/p", Rating[].class);
        assertThat(found).singleElement().satisfies(one -> assertThat(one.getRating()).isEqualTo(3));
    }

    @Test
    void ratingBeyondFiveIsRefused() {
        var wrong = Map.of("reviewerId", "r", "productId", "wrong", "rating", 6);
        assertThat(http.postForEntity("/ratings", wrong, String.class).getStatusCode().value()).isEqualTo(400);
        assertThat(http.getForObject("/ratings/wrong", String.class)).isEqualTo("[]");
    }
}
