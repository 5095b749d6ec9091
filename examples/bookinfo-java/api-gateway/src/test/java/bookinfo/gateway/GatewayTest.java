package bookinfo.gateway;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.boot.test.web.client.TestRestTemplate;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

@SpringBootTest(webEnvironment = WebEnvironment.RANDOM_PORT)
class GatewayTest {
    private static final HttpServer RATINGS = ratings();

    @Autowired
    private TestRestTemplate http;

    /** Answers with the path that it was asked for. */
    private static HttpServer ratings() {
        try {
            var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
            server.createContext("/", exchange -> {
                var body = exchange.getRequestURI().toString().getBytes(StandardCharsets.UTF_8);
                exchange.sendResponseHeaders(200, body.length);
                exchange.getResponseBody().write(body);
                exchange.close();
            });
            server.start();
            return server;
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @DynamicPropertySource
    static void whereRatingsAre(DynamicPropertyRegistry registry) {
        registry.add("RATINGS_URL", () -> "http://127.0.0.1:" + RATINGS.getAddress().getPort());
    }

    @AfterAll
    static void end() {
        RATINGS.stop(0);
    }

    @Test
    void firstPartOfThePathIsTakenAway() {
        assertThat(http.getForObject("/bookinfo-ratings/ratings/one?x=1", String.class)).isEqualTo("/ratings/one?x=1");
    }

    @Test
    void nothingElseIsThere() {
        assertThat(http.getForEntity("/ratings/one", String.class).getStatusCode().value()).isEqualTo(404);
    }
}
